! ranks: 1 2
! Adjustable arrays, and parts of one long work array that are passed by their first element.
      PROGRAM ADJUST
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER N, M
      PARAMETER (N=4, M=3)
      INTEGER IERR, ME, NP, I
      DOUBLE PRECISION WORK(2*N*M)
      COMMON /WORKSP/ WORK
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 10 I = 1, N*M
         WORK(I) = ME + I
         WORK(N*M+I) = 0
   10 CONTINUE
      CALL TOTAL(WORK(1), WORK(N*M+1), N, M)
      DO 20 I = 1, N*M
         IF (WORK(N*M+I) .NE. NP*(NP-1)/2 + NP*I) STOP 1
   20 CONTINUE
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END

      SUBROUTINE TOTAL(A, B, N, M)
      INCLUDE 'mpif.h'
      INTEGER N, M, J, IERR
      DOUBLE PRECISION A(N,*), B(N,M)
C     A column for each call.
      DO 10 J = 1, M
         CALL MPI_ALLREDUCE(A(1,J), B(1,J), N, MPI_DOUBLE_PRECISION,
     &                      MPI_SUM, MPI_COMM_WORLD, IERR)
   10 CONTINUE
      END
