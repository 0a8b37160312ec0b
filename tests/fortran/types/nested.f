! ranks: 2
! A type of types: the corners of a cube.
      PROGRAM NESTED
      USE MPI_F08
      IMPLICIT NONE
      INTEGER, PARAMETER :: N = 5
      TYPE(MPI_DATATYPE) PAIR, FACE, CORNRS
      INTEGER(KIND=MPI_ADDRESS_KIND) STRIDE
      INTEGER ME, I, J, K, A(N,N,N), B(8), C(N,N,N)
      CALL MPI_INIT()
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME)
      CALL MPI_TYPE_VECTOR(2, 1, N-1, MPI_INTEGER, PAIR)
      STRIDE = 4*N*(N-1)
      CALL MPI_TYPE_CREATE_HVECTOR(2, 1, STRIDE, PAIR, FACE)
      STRIDE = STRIDE*N
      CALL MPI_TYPE_CREATE_HVECTOR(2, 1, STRIDE, FACE, CORNRS)
      CALL MPI_TYPE_COMMIT(CORNRS)
      FORALL (I=1:N, J=1:N, K=1:N) A(I,J,K) = 100*I + 10*J + K
      C = 0
      IF (ME .EQ. 0) THEN
         CALL MPI_SEND(A, 1, CORNRS, 1, 1, MPI_COMM_WORLD)
         CALL MPI_SEND(A(1:N:N-1,1:N:N-1,1:N:N-1), 8, MPI_INTEGER, 1, 2,
     &                 MPI_COMM_WORLD)
      ELSE
         CALL MPI_RECV(B, 8, MPI_INTEGER, 0, 1, MPI_COMM_WORLD,
     &                 MPI_STATUS_IGNORE)
         IF (ANY(B .NE. [111, 511, 151, 551, 115, 515, 155, 555]))
     &      ERROR STOP 'the corners'
         CALL MPI_RECV(C, 1, CORNRS, 0, 2, MPI_COMM_WORLD,
     &                 MPI_STATUS_IGNORE)
         IF (C(5,1,5) .NE. 515 .OR. COUNT(C .NE. 0) .NE. 8)
     &      ERROR STOP 'a section into a type'
      END IF
      CALL MPI_FINALIZE()
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
