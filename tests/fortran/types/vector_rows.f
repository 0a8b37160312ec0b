! ranks: 2
! Rows of a matrix by a vector type, received as a column.
      PROGRAM ROWS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER N, M
      PARAMETER (N=4, M=6)
      INTEGER IERR, ME, ROW, I, J, BYTES, STAT(MPI_STATUS_SIZE), K
      DOUBLE PRECISION A(N,M), COL(M)
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_TYPE_VECTOR(M, 1, N, MPI_DOUBLE_PRECISION, ROW, IERR)
      CALL MPI_TYPE_COMMIT(ROW, IERR)
      CALL MPI_TYPE_SIZE(ROW, BYTES, IERR)
      IF (BYTES .NE. 8*M) STOP 1
      DO 20 J = 1, M
         COL(J) = 0
         DO 10 I = 1, N
            A(I,J) = 100*I + J
   10    CONTINUE
   20 CONTINUE
      IF (ME .EQ. 0) THEN
         DO 30 I = 1, N
            CALL MPI_SEND(A(I,1), 1, ROW, 1, I, MPI_COMM_WORLD, IERR)
   30    CONTINUE
      ELSE
         DO 50 I = N, 1, -1
            CALL MPI_RECV(COL, M, MPI_DOUBLE_PRECISION, 0, I,
     &                    MPI_COMM_WORLD, STAT, IERR)
            CALL MPI_GET_ELEMENTS(STAT, ROW, K, IERR)
            IF (K .NE. M) STOP 2
            DO 40 J = 1, M
               IF (COL(J) .NE. 100*I + J) STOP 3
   40       CONTINUE
   50    CONTINUE
      END IF
      CALL MPI_TYPE_FREE(ROW, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
